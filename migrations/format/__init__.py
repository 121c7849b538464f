"""Format steps: how the tables of a store go from one format to the next, and back."""

from migrations.format.changing import StepStatus, down, status, up

__all__ = ["StepStatus", "down", "status", "up"]
