"""Rows of topics: their columns, the ranges that a round reads, and how tasks read them."""
