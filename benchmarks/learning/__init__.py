"""What adaptive policies learn from few waves: each table of docs/learning.md, with its claims."""
