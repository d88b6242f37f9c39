// Before the first paint: the theme chosen here, else the system's.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => { try { return localStorage.getItem("tagsmith-theme"); } catch { return null; } };
  const apply = () => { document.documentElement.dataset.theme = chosen() || (dark.matches ? "dark" : "light"); };
  dark.addEventListener("change", apply);
  apply();
})();
