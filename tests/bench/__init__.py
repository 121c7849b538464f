"""The benchmarks run and report; no speed is judged here."""
