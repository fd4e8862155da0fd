// Expects an error of a type, with a text.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace adret {

// Runs f and expects it to throw an E (exactly: a base or another type fails) whose message
// contains `text`.
template <class E, class F>
void expect_error(F&& f, const std::string& text) {
  try {
    static_cast<void>(f());
    ADD_FAILURE() << "no error was thrown; expected: " << text;
  } catch (const E& error) {
    EXPECT_EQ(typeid(error), typeid(E)) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos)
        << "message:  " << error.what() << "\nexpected: " << text;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an error of another type was thrown: " << error.what();
  }
}

}  // namespace adret
