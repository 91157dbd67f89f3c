// Before the first paint: the theme that the person has chosen, and the mark that JavaScript runs.
"use strict";
document.documentElement.classList.add("js");
try {
  const theme = localStorage.getItem("headrace-theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* Storage may be switched off. */ }
