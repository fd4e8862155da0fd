// Trains a small GPT on the bytes of a text file and shows what it says as it learns, or goes on
// with a prompt.
//
//   char_gpt TEXT [--steps N] [--features N] [--depth N] ...
//   char_gpt --weights FILE --prompt "Once"
#include <cmath>
#include <limits>

#include "../command_line.h"
#include "model.h"

namespace {

using namespace adret;
using namespace adret::examples;
using namespace char_gpt;

struct Arguments {
  std::string text, device = "auto", precision, save = "char_gpt.safetensors", weights, prompt;
  int64_t steps = 2000, batch = 32, every = 200;
  int64_t context = 64, features = 128, heads = 4, depth = 4;
  double lr = 1e-3, dropout = 0.1;
  SampleOptions sample;
  uint64_t seed = 1;
  int threads = num_threads();
  StepMode mode = StepMode::automatic;
};

// Mean loss in nats a byte of the first 64 windows of the held-out text.
double evaluate(Gpt2& model, const Windows& windows, Device device) {
  model.eval();
  const NoGrad no_grad;
  const auto [inputs, next] = windows.in_order(64);
  const double loss = double(cross_entropy(model(inputs.to(device)), next.to(device)).item());
  model.train();
  return loss;
}

void train(const Arguments& args) {
  check_can_save("char_gpt", args.save);
  check_apart("char_gpt", args.text, args.save, "--save");
  random::manual_seed(args.seed);
  const Device device = choose_training_device("char_gpt", args.device);
  const std::string text = read_text(args.text);
  const Alphabet alphabet(text);
  const std::string prompt = args.prompt.empty() ? text.substr(0, 1) : args.prompt;
  (void)alphabet.encode(prompt, "the prompt");  // refused before training, not behind it
  const size_t held_out = text.size() / 10;
  const Windows learned(alphabet.encode(text.substr(0, text.size() - held_out)), args.context);
  const Windows tested(alphabet.encode(text.substr(text.size() - held_out)), args.context);

  Speaker speaker{Gpt2({.vocabulary = alphabet.size(),
                        .context = args.context,
                        .features = args.features,
                        .heads = args.heads,
                        .depth = args.depth,
                        .dropout = args.dropout}),
                  alphabet};
  Gpt2& model = speaker.model;
  model.to(device);
  if (args.precision == "bf16") model.to(DType::bf16);
  AdamW optimizer(model, {.lr = args.lr, .weight_decay = 0.1});
  const LrSchedule schedule = cosine_lr({.lr = args.lr,
                                         .steps = args.steps,
                                         .warmup_steps = std::min<int64_t>(100, args.steps / 10)});
  Step step(
      [&](const Tensor& inputs, const Tensor& next) {
        optimizer.zero_grad();
        const Tensor loss = cross_entropy(model(inputs), next);
        loss.backward();
        optimizer.clip_norm(1);
        optimizer.step();
        return loss;
      },
      {.mode = args.mode});

  fmt::print("{} bytes of {} kinds; {} held out\n", text.size(), alphabet.size(), held_out);
  for (int64_t i = 0; i < args.steps; ++i) {
    random::begin_step(i);
    optimizer.set_lr(schedule(i));
    const auto [inputs, next] = learned.random(args.batch);
    const Tensor loss = step(inputs.to(device), next.to(device));
    if ((i + 1) % args.every != 0 && i + 1 != args.steps) continue;
    const double held_out_loss = evaluate(model, tested, device);
    if (!std::isfinite(held_out_loss)) {  // of the weights that would be saved
      throw Error(fmt::format(
          "[char_gpt] at step {} the loss is not finite; train with a lower --lr", i + 1));
    }
    fmt::print("step {:5}  loss {:.4f}  held out {:.4f}\n{}\n\n", i + 1, loss.item(), held_out_loss,
               sample(model, alphabet, prompt, args.sample));
    std::fflush(stdout);
  }
  save(speaker, args.save);
  fmt::print("weights in {}\n", std::filesystem::absolute(args.save).string());
}

void speak(const Arguments& args) {
  random::manual_seed(args.seed);
  Speaker speaker = load(args.weights);
  speaker.model.to(choose_device(args.device));
  const std::string prompt =
      args.prompt.empty() ? speaker.alphabet.bytes().substr(0, 1) : args.prompt;
  fmt::print("{}\n", sample(speaker.model, speaker.alphabet, prompt, args.sample));
}

void add_options(CLI::App& app, Arguments& args) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  CLI::Option* const text = app.add_option("text", args.text, "file to learn from");
  add_device(app, args.device);
  app.add_option("--precision", args.precision, "fp32 or bf16; default: fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  const auto number = [&](const char* name, int64_t& value, const char* meaning) {
    app.add_option(name, value, meaning)->check(between(1, most))->capture_default_str();
  };
  number("--steps", args.steps, "of training");
  number("--batch", args.batch, "pieces of text a step");
  number("--context", args.context, "bytes that the model sees at once");
  number("--features", args.features, "of each byte");
  number("--heads", args.heads, "of attention; they divide the features");
  number("--depth", args.depth, "blocks");
  number("--every", args.every, "steps between samples");
  number("--length", args.sample.length, "bytes of a sample");
  app.add_option("--temperature", args.sample.temperature, "of samples: lower is more of the same")
      ->check(above_zero())
      ->capture_default_str();
  app.add_option("--lr", args.lr, "top of the learning rate")
      ->check(above_zero())
      ->capture_default_str();
  app.add_option("--dropout", args.dropout, "share of features that is left out in training")
      ->check(below_one())
      ->capture_default_str();
  app.add_option("--prompt", args.prompt, "what samples begin with; default: the first byte");
  add_seed(app, args.seed, "of weights, order, dropout and samples");
  add_threads(app, args.threads);
  add_mode(app, args.mode);
  app.add_option("--save", args.save, "file for the weights")->capture_default_str();
  app.add_option("--weights", args.weights, "says something with these, as training saved them")
      ->excludes(text);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments args;
  CLI::App app("Trains a small GPT on the bytes of a text, or says something.");
  add_options(app, args);
  return run_program("char_gpt", app, argc, argv, [&] {
    set_num_threads(args.threads);
    if (!args.weights.empty()) {
      speak(args);
    } else if (!args.text.empty()) {
      train(args);
    } else {
      throw Error("[char_gpt] name a text file to learn from, or --weights FILE");
    }
  });
}
