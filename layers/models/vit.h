// Vision transformers (Dosovitskiy et al. 2021).
#pragma once

#include <adret/layers/models/transformer_block.h>
#include <adret/layers/sequential.h>

namespace adret {

struct VitOptions {  // by default ViT-S/16 for images of ImageNet
  int64_t image = 224, patch = 16, channels = 3;
  int64_t features = 384, heads = 6, depth = 12;
  int64_t classes = 1000;
  double dropout = 0;
};

// Images (N, image, image, channels) -> logits (N, classes): patches are tokens, and a token of its
// own gathers what the head is given. Names in files are timm's.
class Vit : public Layer<Vit> {
 public:
  // A convolution whose stride is its kernel, as the product that it is: patches do not overlap.
  struct PatchProjection : Layer<PatchProjection> {
    explicit PatchProjection(const VitOptions& options);
    Tensor forward(const Tensor& x);  // (N, image, image, channels) -> (N, patches, features)
    PatchProjection rebuild() const { return PatchProjection(options); }

    const VitOptions options;
    Parameter& weight;  // (features, patch, patch, channels)
    Parameter& bias;
  };
  struct PatchEmbed : Layer<PatchEmbed> {
    explicit PatchEmbed(const VitOptions& options) : proj(add("proj", PatchProjection(options))) {}
    Tensor forward(const Tensor& x) { return proj(x); }
    PatchEmbed rebuild() const { return PatchEmbed(proj.options); }

    PatchProjection& proj;
  };

  // Throws Error for sizes below 1, patches that do not tile the image, and heads that do not
  // divide the features.
  explicit Vit(const VitOptions& options = {});
  Tensor forward(const Tensor& x);
  Vit rebuild() const { return Vit(options); }

  const VitOptions options;
  Parameter& cls_token;  // (1, 1, features)
  Parameter& pos_embed;  // (1, 1 + patches, features)
  PatchEmbed& patch_embed;
  Sequential& blocks;  // TransformerBlock, `depth` of them
  LayerNorm& norm;
  Linear& head;
};

// The sizes of the papers, of any image, patch and number of classes.
Vit vit_tiny(VitOptions options = {});   // 192 features, 3 heads
Vit vit_small(VitOptions options = {});  // 384 features, 6 heads
Vit vit_base(VitOptions options = {});   // 768 features, 12 heads

}  // namespace adret
