// The building blocks of the page: cards, tables and controls.

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function addSelect(controls, name, choices, onChange) {
  const select = make('select', {name});
  for (const [value, text] of choices)
    select.append(make('option', {value, textContent: text}));
  select.addEventListener('change', onChange);
  controls.append(make('label', {}, name, select));
  return select;
}

// `controls` is [[name, [[value, text], ...]], ...]; `option` is called with
// the chosen values by name. Without `option` the card has no chart.
function addCard({id, title, text, controls = [], option, height, isWide}) {
  const bar = make('div', {className: 'controls'});
  const section = make('section', {id, className: isWide ? 'wide' : ''},
      make('div', {className: 'heading'}, make('h2', {textContent: title}),
           bar));
  if (text) section.append(make('p', {textContent: text}));
  page.append(section);
  if (!option) return section;
  const place = make('div', {className: 'chart'});
  section.append(place);
  const chart = echarts.init(place, null, {renderer: 'svg'});
  const selects = {};
  const draw = () => {
    const values = {};
    for (const name in selects) values[name] = selects[name].value;
    if (height) {
      place.style.height = height(values) + 'px';
      chart.resize();
    }
    chart.setOption(withDefaults(option(values)), {notMerge: true});
  };
  for (const [name, choices] of controls)
    selects[name] = addSelect(bar, name, choices, draw);
  cards.push({id, chart, draw, place});
  return section;
}

function addTable(section, columns, rows) {
  const head = make('tr');
  for (const column of columns)
    head.append(make('th', {textContent: column.name,
                            className: column.kind || ''}));
  const body = make('tbody');
  for (const row of rows) {
    const line = make('tr');
    row.forEach((cell, i) => {
      const td = make('td', {className: columns[i].kind || ''});
      td.append(cell instanceof Node ? cell : String(cell ?? '–'));
      line.append(td);
    });
    body.append(line);
  }
  section.append(make('div', {className: 'scroll'},
      make('table', {}, make('thead', {}, head), body)));
  return body;
}

// The run's name with a dot of its color; colors change with the theme.
function runName(i) {
  const dot = make('span', {className: 'dot'});
  dot.dataset.color = i;
  return make('span', {}, dot, runs[i].label);
}

const runChoices = (indices) => indices.map((i) => [i, runs[i].label]);

// "Not shown: a, b (no trace.json)." for runs that lack the data of a chart.
function notShown(indices, why, what = 'Not shown') {
  const others = runs.filter((run, i) => !indices.includes(i));
  if (others.length === 0) return '';
  return ` ${what}: ${others.map((run) => run.label).join(', ')} (${why}).`;
}
