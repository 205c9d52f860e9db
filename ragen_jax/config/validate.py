"""x"""

from ragen_jax.config.schema import Config


def validate(config: Config) -> None: ...
def check_mesh(config: Config, devices: int) -> None: ...
