// Code, tables and drawings that scroll sideways can be reached, and scrolled, with the keyboard.
(() => {
  "use strict";
  const BOXES = "pre > code, .md-typeset__table, .md-typeset__scrollwrap, .formula, .las-explorer > div";

  function reach() {
    for (const box of document.querySelectorAll(BOXES)) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }

  addEventListener("DOMContentLoaded", reach);
  addEventListener("load", reach);
  addEventListener("resize", reach);
})();
