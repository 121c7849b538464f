"""The contract of the store, rule by rule, through its public interface only."""
