"""The port: who gets in, and what plain HTTP is answered."""
