"""Author time: what a kernel declaration says, checked and frozen.

TOML or Python values go in, specs (`kspec.spec.models`) come out; `kspec.render` is next.

* `parser`: the mini-language of parameters (that of C's is `kspec.model.raw.c_params`).
* `models`, `fields`, `rules`: the Pydantic models and what they accept.
* `loader`, `positions`: spec files, with all problems located.
* `schema`: the JSON Schema that editors use.
"""
