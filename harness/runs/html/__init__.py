"""Parts of self-contained HTML pages: everything in one file, nothing fetched, every foreign text escaped.

``page``       renders a template into such a page
``svg``        elements of SVG, escaped
``scale``      numbers on an axis: round ticks, short labels
``charts``     a histogram, and values over time
``flame``      stacks with seconds as a flame graph
``excerpt``    a line of source with its neighbours
``templates``  the frame of every page (``base.html.j2``), parts (``parts.html.j2``), style and script

A room that has a page of its own keeps its template beside its code and gives the folder to ``page.render``. The
templates extend ``base.html.j2`` and take charts as ready SVG.
"""
