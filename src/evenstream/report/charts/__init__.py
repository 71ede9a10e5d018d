"""The charts of a report, as SVG that follows the page's colours or as PNG.

matplotlib is imported only when a chart is drawn, and only its figure objects are used: nothing
here touches pyplot or changes global settings. No name from a run goes into an SVG; names are
written by the page, where they can wrap.
"""
