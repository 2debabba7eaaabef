// Light or dark: as the reader's system has it, until the button says otherwise.
const theme = {
  key: "shiftmatch-theme",
  stored() { try { return localStorage.getItem(this.key); } catch { return null; } },
  store(name) { try { localStorage.setItem(this.key, name); } catch { /* a page may live without a memory */ } },
  isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  },
  toggle() {
    const name = this.isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = name;
    this.store(name);
  },
};
if (["light", "dark"].includes(theme.stored())) document.documentElement.dataset.theme = theme.stored();
document.addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => theme.toggle());
});
