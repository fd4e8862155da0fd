// What a call throws: its type, and its text whole or in part.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <typeinfo>

namespace adret::test {

// The message of the E that `call` throws; exactly an E, which may have another error nested: a
// derived or another type fails the test, and so does nothing.
template <class E, class Call>
std::string thrown(Call&& call) {
  try {
    static_cast<void>(call());
  } catch (const E& error) {
    const bool nests = dynamic_cast<const std::nested_exception*>(&error) != nullptr;
    EXPECT_TRUE(nests || typeid(error) == typeid(E))
        << "threw " << typeid(error).name() << ": " << error.what();
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw " << typeid(error).name() << ": " << error.what();
    return {};
  }
  ADD_FAILURE() << "threw nothing";
  return {};
}

// Expects the message of the E that `call` throws to contain `text`.
template <class E, class Call>
void expect_error(Call&& call, const std::string& text) {
  EXPECT_PRED_FORMAT2(testing::IsSubstring, text, thrown<E>(call));
}

}  // namespace adret::test
