"""Static description of a decoder, hashable so that it can be a static argument of jitted programs."""

from __future__ import annotations

import dataclasses

from ragen_jax.registry import unknown_name


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A Qwen2.5-shaped decoder: RMSNorm, rotary positions, grouped-query attention, gated MLP.

    Attributes:
      name: preset name.
      vocab_rows: rows of the embedding (V); ids that no token uses are masked in sampler and scorer.
      width: residual width d.
      layers: decoder blocks.
      heads: query heads.
      kv_heads: key/value heads; query head h reads key/value head h // (heads / kv_heads).
      head_dim: width of one head.
      mlp_width: inner width of the gated MLP.
      rope_theta: base of the rotary frequencies.
      norm_eps: epsilon of RMSNorm.
      tied: the output head is the transposed embedding.
      qkv_bias: query, key and value projections have biases (Qwen2.5 does).
      init_scale: standard deviation of random initial weights.
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
    norm_eps: float = 1e-6
    tied: bool = True
    qkv_bias: bool = True
    init_scale: float = 0.02

    def __post_init__(self) -> None:
        """Refuse shapes that cannot work."""
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
        block = 2 * d + 2 * d * h * hd + 2 * d * kv * hd + 3 * d * f + self.qkv_bias * (h + 2 * kv) * hd
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


PRESETS: dict[str, ModelConfig] = {
    config.name: config
    for config in (
        _tiny("tiny", width=128, layers=2, heads=4, kv_heads=2, mlp_width=256),
        _tiny("tiny-critic", width=64, layers=2, heads=4, kv_heads=2, mlp_width=128),
        _tiny("small", width=256, layers=4, heads=8, kv_heads=2, mlp_width=704),
    )
}


def model_config(name: str) -> ModelConfig:
    """Preset by name; a KeyError with the nearest name otherwise."""
    if name not in PRESETS:
        raise KeyError(unknown_name("model preset", name, PRESETS))
    return PRESETS[name]
