"""C++ text as tokens: the one tokenizer of kspec, and the declarations that are read with it.

>>> from kspec.cpp.tokens import tokens_of
>>> [token.text for token in tokens_of("Foo<Bar<int>> x = 1 << 3;  // no comment")]
['Foo', '<', 'Bar', '<', 'int', '>', '>', 'x', '=', '1', '<<', '3', ';']

`tokens` splits a text, `brackets` finds what belongs together, `declarations` finds the names that
a statement declares.  Nothing here knows CUDA's semantics: `kspec.compiler.host.rewrite` does.
"""
