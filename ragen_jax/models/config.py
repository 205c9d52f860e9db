"""Static description of a decoder, hashable so that it can be a static argument of jitted programs."""

from __future__ import annotations

import dataclasses

from ragen_jax.registry import unknown_name


@dataclasses.dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """Llama 3's stretch of the rotary wavelengths beyond the context of pretraining.

    Attributes:
      factor: by which the long wavelengths are stretched.
      low_freq_factor: wavelengths above ``original_context / low_freq_factor`` are stretched in full.
      high_freq_factor: wavelengths below ``original_context / high_freq_factor`` stay; between them it is blended.
      original_context: tokens of the pretraining context.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A decoder of the Qwen2, Qwen3 or Llama 3 kind: RMSNorm, rotary positions, grouped-query attention, gated MLP.

    Attributes:
      name: preset name, or the name of the folder that it was read from.
      vocab_rows: rows of the embedding (V); ids that no token uses are masked in sampler and scorer.
      width: residual width d.
      layers: decoder blocks.
      heads: query heads.
      kv_heads: key/value heads; query head h reads key/value head h // (heads / kv_heads).
      head_dim: width of one head; heads * head_dim need not be the width.
      mlp_width: inner width of the gated MLP.
      rope_theta: base of the rotary frequencies.
      rope_scaling: Llama 3's stretch, or None.
      norm_eps: epsilon of RMSNorm.
      tied: the output head is the transposed embedding.
      qkv_bias: query, key and value projections have biases (Qwen2 does).
      qk_norm: queries and keys are normed per head before rotation (Qwen3 does).
      max_context: positions that the model was made for, 0 = no limit is known.
      init_scale: standard deviation of random initial weights.
      adapter_scale: factor on low-rank adapters, where the parameters hold some (``models.lora``).
    """

    name: str
    vocab_rows: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_width: int
    rope_theta: float = 1e6
    rope_scaling: RopeScaling | None = None
    norm_eps: float = 1e-6
    tied: bool = True
    qkv_bias: bool = True
    qk_norm: bool = False
    max_context: int = 0
    init_scale: float = 0.02
    adapter_scale: float = 0.0

    def __post_init__(self) -> None:
        """Refuse shapes that cannot work."""
        for name in ("vocab_rows", "width", "layers", "heads", "kv_heads", "head_dim", "mlp_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be 1 or more")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads={self.heads} must be a multiple of kv_heads={self.kv_heads}")
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} must be even (rotary halves)")

    @property
    def group(self) -> int:
        """Query heads per key/value head."""
        return self.heads // self.kv_heads

    def parameter_count(self) -> int:
        """Number of parameters."""
        d, h, kv, hd, f = self.width, self.heads, self.kv_heads, self.head_dim, self.mlp_width
        block = 2 * d + 2 * d * h * hd + 2 * d * kv * hd + 3 * d * f
        block += self.qkv_bias * (h + 2 * kv) * hd + self.qk_norm * 2 * hd
        return self.layers * block + d + self.vocab_rows * d * (1 if self.tied else 2)


def _tiny(name: str, *, width: int, layers: int, heads: int, kv_heads: int, mlp_width: int) -> ModelConfig:
    return ModelConfig(
        name=name,
        vocab_rows=512,
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width // heads,
        mlp_width=mlp_width,
        rope_theta=1e4,
        init_scale=0.06,
    )


def _qwen25(
    size: str, *, width: int, layers: int, heads: int, kv_heads: int, mlp_width: int, tied: bool, vocab_rows: int
) -> ModelConfig:
    return ModelConfig(
        name=f"qwen2.5-{size}",
        vocab_rows=vocab_rows,
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=width // heads,
        mlp_width=mlp_width,
        tied=tied,
        max_context=32_768,
    )


def _llama32(size: str, *, width: int, layers: int, heads: int, head_dim: int) -> ModelConfig:
    return ModelConfig(
        name=f"llama-3.2-{size}",
        vocab_rows=128_256,
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=8,
        head_dim=head_dim,
        mlp_width=8192,
        rope_theta=5e5,
        rope_scaling=RopeScaling(factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=8192),
        norm_eps=1e-5,
        qkv_bias=False,
        max_context=131_072,
    )


PRESETS: dict[str, ModelConfig] = {
    config.name: config
    for config in (
        _tiny("tiny", width=128, layers=2, heads=4, kv_heads=2, mlp_width=256),
        _tiny("tiny-critic", width=64, layers=2, heads=4, kv_heads=2, mlp_width=128),
        _tiny("small", width=256, layers=4, heads=8, kv_heads=2, mlp_width=704),
        _qwen25("0.5b", width=896, layers=24, heads=14, kv_heads=2, mlp_width=4864, tied=True, vocab_rows=151_936),
        _qwen25("1.5b", width=1536, layers=28, heads=12, kv_heads=2, mlp_width=8960, tied=True, vocab_rows=151_936),
        _qwen25("3b", width=2048, layers=36, heads=16, kv_heads=2, mlp_width=11008, tied=True, vocab_rows=151_936),
        _qwen25("7b", width=3584, layers=28, heads=28, kv_heads=4, mlp_width=18944, tied=False, vocab_rows=152_064),
        _qwen25("14b", width=5120, layers=48, heads=40, kv_heads=8, mlp_width=13824, tied=False, vocab_rows=152_064),
        _llama32("1b", width=2048, layers=16, heads=32, head_dim=64),
        _llama32("3b", width=3072, layers=28, heads=24, head_dim=128),
    )
}


def model_config(name: str) -> ModelConfig:
    """Preset by name; a KeyError with the nearest name otherwise."""
    if name not in PRESETS:
        raise KeyError(unknown_name("model preset", name, PRESETS))
    return PRESETS[name]
