"""Environments in other processes or other languages, over HTTP.

``HttpEnv`` is the client, ``python -m ragen_jax.envs.http_env.server`` serves any registered environment. The protocol
is six requests with JSON objects; a server in any language may speak it:

    POST /make         {options}             -> {id, name, instructions}, and data_source where rows come from data
    POST /reset        {id, seed, member}    -> {observation, canonical}
    POST /step         {id, answer}          -> {observation, reward, terminated, truncated, info}
    POST /finish       {id}                  -> {reward, info}
    POST /demonstrate  {id, seed, skill}     -> {reasoning, answer}
    POST /close        {id}                  -> {}

``options`` are the fields of ``EnvConfig``; what a server cannot do it refuses. An observation is ``{text}``, with
``image: {height, width, rgb}`` (base64 of height x width x 3 bytes) where there is one. ``info`` has at least
``success``, ``action_is_valid`` and ``action_is_effective``. ``/finish`` ends an episode that is broken off where it
stands, and gives what is paid and reported at the end only: 0 and ``{}`` where nothing is. A faulty request is answered
400, an id that is not (or no longer) known 404, an environment that fails 500, each with ``{error}``. An id is never
given again, not even after a restart.
"""

from __future__ import annotations

from ragen_jax.envs.http_env.env import EnvServerError, HttpEnv, HttpEnvConfig

__all__ = ["EnvServerError", "HttpEnv", "HttpEnvConfig"]
