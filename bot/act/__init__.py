"""Carries out what was approved: plans for those who ask, orders sent at most once, and their proof."""
