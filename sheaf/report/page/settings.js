// The settings of the runs.

function addConfigTable(section, rows) {
  const body = addTable(section, [{name: 'Key'},
    ...runs.map((run) => ({name: run.label, kind: 'long'}))],
    rows.map(({key, values}) => [key, ...values.map((value) =>
      value === null ? '–' : value === '' ? '""' : value)]));
  return body;
}

function addConfig() {
  const different = data.config.filter((row) => row.differs);
  const section = addCard({id: 'config', title: 'Settings', isWide: true,
    text: data.config.length === 0 ? 'No run has a config.yaml.' :
      runs.length === 1 ? 'One run: nothing to compare.' :
      different.length === 0 ? 'All runs have the same settings.' :
      `Settings that differ; ${data.config.length - different.length} others ` +
      'are equal.'});
  if (different.length > 0) addConfigTable(section, different);
  if (data.config.length === 0) return;
  const details = make('details', {},
    make('summary', {textContent: 'All settings'}));
  addConfigTable(details, data.config);
  section.append(details);
}
