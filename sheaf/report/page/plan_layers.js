// The precision of each layer, and its cost in the other precisions.

const SHOWN = {
  chosen: ['ms', 'ms per step, forward and backward'],
  ms: ['ms', 'ms per step, forward and backward'],
  indicator: ['indicator', 'indicator'],
};

// One bar per layer in the color of its precision, or one per recorded
// precision.
function layerSeries(layers, show) {
  const [key] = SHOWN[show];
  const isChosen = show === 'chosen';
  const used = isChosen ? layers.map((layer) => layer.precision) :
    layers.flatMap((layer) => Object.keys(layer[key]));
  return precisionsIn(used).map((precision) => ({
    name: precision, type: 'bar', barMaxWidth: 22, emphasis: {disabled: true},
    ...(isChosen ? {stack: 'all'} : {barGap: '0%'}),
    itemStyle: {color: precisionColor(precision)},
    data: layers.map((layer) => isChosen && layer.precision !== precision ?
      null : layer[key][precision] ?? null),
  }));
}

function layerTip(layer, key, precisions) {
  return head(`${layer.name}: ${layer.op}`) +
    `<b>${encode(layer.precision)}</b>, ${encode(layer.reason)}` +
    precisions.filter((one) => layer[key][one] !== undefined).map((one) =>
      `<div>${encode(one)}: ${numberText(layer[key][one])}` +
      `${key === 'ms' ? ' ms' : ''}</div>`).join('');
}

function layersOption({device, show}) {
  const layers = layersOn(device);
  const [key, axis] = SHOWN[show];
  const series = layerSeries(layers, show);
  const isLong = layers.length > 30;
  return {
    legend: {data: series.map((one) => one.name)},
    tooltip: {trigger: 'axis', axisPointer: {type: 'shadow'},
      formatter: ([item]) => layerTip(layers[item.dataIndex], key,
                                      data.precisions)},
    grid: {left: 12, right: 22, top: 56, bottom: isLong ? 44 : 8,
           containLabel: true},
    dataZoom: isLong ? keepZoom('layers', [
      {type: 'slider', height: 18, bottom: 6, ...zoomStyle()},
      {type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseMove: true,
       moveOnMouseWheel: false}]) : [],
    xAxis: {type: 'category', data: layers.map((layer) => layer.name),
      axisLabel: {rotate: 45, color: theme.text, fontSize: 11, width: 130,
                  overflow: 'truncate', hideOverlap: true}},
    yAxis: yAxisOf(axis, ''),
    series,
  };
}

function addLayerTable(section) {
  const number = (name) => ({name, kind: 'number'});
  const several = data.devices.length > 1;
  const details = make('details', {},
    make('summary', {textContent: `All ${data.layers.length} layers`}));
  addTable(details, [{name: 'Layer'}, ...(several ? [{name: 'Device'}] : []),
    {name: 'Operator'}, number('Depth'), {name: 'Precision'},
    ...data.precisions.map((one) => number(`${one} (ms)`)),
    ...data.precisions.map((one) => number(`${one} indicator`)),
    {name: 'Reason', kind: 'long'}],
    data.layers.map((layer) => [layer.name,
      ...(several ? [data.devices[layer.device]] : []), layer.op,
      layer.depth, precisionName(layer.precision),
      ...data.precisions.map((one) => numberText(layer.ms[one])),
      ...data.precisions.map((one) => numberText(layer.indicator[one], 3)),
      layer.reason]));
  section.append(details);
}

function addLayers() {
  if (data.layers.length === 0) return;
  const has = (key) => data.layers.some((layer) =>
    Object.keys(layer[key]).length > 0);
  const views = [['chosen', 'planned time']];
  if (has('ms')) views.push(['ms', 'time in each precision']);
  if (has('indicator')) views.push(['indicator', 'indicator']);
  const section = addCard({id: 'layers', title: 'Precision by layer',
    isWide: true, text: 'Layers in the order of the forward pass.',
    controls: [...deviceControl(), ['show', views]], height: () => 400,
    option: layersOption});
  addLayerTable(section);
}
