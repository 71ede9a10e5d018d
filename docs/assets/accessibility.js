// What the theme leaves out for people who use a keyboard or a screen reader.
(() => {
  "use strict";
  const BOXES = "pre > code, .md-typeset__table, .md-typeset__scrollwrap, .formula, .las-explorer > div";

  // Code, tables and drawings that scroll sideways can be reached, and scrolled, with the keyboard.
  function reach() {
    for (const box of document.querySelectorAll(BOXES)) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }

  // Each group of links or buttons has a name of its own.
  function name() {
    document.querySelectorAll(".md-nav--primary, .md-code__nav").forEach((nav, number) => {
      nav.removeAttribute("aria-labelledby");
      const what = nav.matches(".md-code__nav") ? "Buttons of a code block" : "All pages";
      nav.setAttribute("aria-label", number ? `${what} ${number}` : what);
    });
  }

  addEventListener("DOMContentLoaded", () => { reach(); name(); });
  addEventListener("load", () => { reach(); name(); });
  addEventListener("resize", reach);
})();
