"""What the model asks of sizes while it is exported.

``questions`` (conditions, with answers), ``branches`` (what notes them), ``caught`` (errors that
the model catches).
"""
