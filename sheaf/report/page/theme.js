// Light and dark.

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const button = document.getElementById('theme');
let chosen = null;  // by the button; null: as the system says

function showTheme() {
  const name = chosen ?? (prefersDark.matches ? 'dark' : 'light');
  theme = THEMES[name];
  document.documentElement.dataset.theme = name;
  button.textContent = name === 'dark' ? 'Light' : 'Dark';
  for (const dot of document.querySelectorAll('.dot'))
    dot.style.background = colourAt(Number(dot.dataset.colour));
  for (const card of cards) card.draw();
}

// When all cards are there.
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
