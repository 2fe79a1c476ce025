"""The live traffic map, and the moving part of it that shows what feedback saves."""
