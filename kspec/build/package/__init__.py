"""A plan in, the files of the generated package out."""
