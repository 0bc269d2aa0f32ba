"""member"""
