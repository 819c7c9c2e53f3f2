"""A verdict as one HTML page, whole in itself.

``build``     verdict and dump in, the page's text out
``parts``     what is compared on it: stacks side by side, two samples, await chains; plain data
``pictures``  the grid of ranks and the merged stacks, as SVG
``write``     puts it beside the stacks, or into a folder of its own
"""

from harness.hang.page.build import NAME as NAME
from harness.hang.page.build import build as build
