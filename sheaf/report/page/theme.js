// The light and dark themes.

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const button = document.getElementById('theme');
let chosen = null;  // set by the button; null: follow the system

function showTheme() {
  const name = chosen ?? (prefersDark.matches ? 'dark' : 'light');
  theme = THEMES[name];
  document.documentElement.dataset.theme = name;
  button.textContent = name === 'dark' ? 'Light' : 'Dark';
  for (const dot of document.querySelectorAll('.dot'))
    dot.style.background = colorAt(Number(dot.dataset.color));
  for (const card of cards) card.draw();
}

// Called after all cards have been added.
function showPage() {
  button.addEventListener('click', () => {
    chosen = document.documentElement.dataset.theme === 'dark' ? 'light' :
                                                                 'dark';
    showTheme();
  });
  prefersDark.addEventListener('change', showTheme);
  const watcher = new ResizeObserver(() => {
    for (const card of cards) card.chart.resize();
  });
  watcher.observe(page);
  showTheme();
}
