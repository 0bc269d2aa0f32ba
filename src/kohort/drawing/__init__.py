"""Who owned what when, as SVG, and the page around it: pure functions from facts to text, without a dependency.

The simulator, what-if, the reports of streams and fleets, and the demo draw with it, light and dark, on desk and phone.
"""
