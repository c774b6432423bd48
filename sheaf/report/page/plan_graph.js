// The model graph. Operators of the same depth (number of layers on the longest
// path to them) form a column, in the order of the forward pass. Columns go
// from left to right and wrap to the next line like words.

const COLUMN_PIXELS = 128;
const NODE_PIXELS = 25;
const MOST_GRAPH_PIXELS = 1100;
let picked = null;  // index of the selected node

const shortName = (node) => node.name.replace(/^aten::/, '');

// The position {x, y, line} of each node, and the top and bottom of each line.
function graphLayout(perLine) {
  const depths = [...new Set(data.nodes.map((node) => node.depth))]
    .sort((a, b) => a - b);
  const columns = depths.map(() => []);
  data.nodes.forEach((node, i) =>
    columns[depths.indexOf(node.depth)].push(i));
  const places = [];
  const lines = [];
  for (let first = 0, top = 0; first < columns.length; first += perLine) {
    const line = columns.slice(first, first + perLine);
    const height = Math.max(...line.map((column) => column.length));
    line.forEach((column, x) => column.forEach((node, y) => {
      places[node] = {x, y: top + y, line: lines.length};
    }));
    lines.push({top, bottom: top + height});
    top += height + 1;
  }
  return {places, lines, width: Math.min(perLine, columns.length),
          height: lines[lines.length - 1].bottom};
}

// The path of an edge around nodes, in graph coordinates.
function edgeWay(from, to, lines) {
  const right = from.x + 0.44, left = to.x - 0.44;
  if (from.line !== to.line) {
    const gap = lines[from.line].bottom - 0.1 + 0.25;
    return {isCurve: false, points: [[right, from.y], [from.x + 0.5, from.y],
      [from.x + 0.5, gap], [to.x - 0.5, gap], [to.x - 0.5, to.y],
      [left, to.y]]};
  }
  if (from.x === to.x) {
    if (to.y - from.y === 1)
      return {isCurve: false, points: [[from.x, from.y + 0.36],
                                       [to.x, to.y - 0.36]]};
    return {isCurve: true, points: [[from.x - 0.44, from.y],
      [from.x - 0.56, from.y], [to.x - 0.56, to.y], [left, to.y]]};
  }
  // Above the nodes between them.
  const lift = to.x - from.x > 1 ? lines[from.line].top - 0.8 : null;
  return {isCurve: true, points: [[right, from.y],
    [from.x + 0.6, lift ?? from.y], [to.x - 0.6, lift ?? to.y], [left, to.y]]};
}

const isAtPicked = (edge) => edge.includes(picked);

function drawEdge(ways) {
  return (parameters, api) => {
    const {isCurve, points} = ways[parameters.dataIndex];
    const isStrong = isAtPicked(data.edges[parameters.dataIndex]);
    const at = points.map((point) => api.coord(point));
    const style = {fill: 'none', stroke: isStrong ? theme.text : theme.faint,
      lineWidth: isStrong ? 2.2 : 1, opacity: picked !== null && !isStrong ?
      0.35 : 0.8};
    if (!isCurve) return {type: 'polyline', shape: {points: at}, style};
    return {type: 'bezierCurve', style, shape: {
      x1: at[0][0], y1: at[0][1], cpx1: at[1][0], cpy1: at[1][1],
      cpx2: at[2][0], cpy2: at[2][1], x2: at[3][0], y2: at[3][1]}};
  };
}

// Shortens the words before the last one, from the left, as far as needed:
// "layer1.0.downsample.0" becomes "laye1.0.down.0".
function fitted(text, most) {
  const words = text.split('.');
  for (const letters of [4, 1])
    for (let i = 0; i + 1 < words.length; ++i) {
      if (words.join('.').length <= most) return words.join('.');
      words[i] = words[i].replace(/^([a-z_]*?)(\d*)$/i,
        (_, word, digits) => word.slice(0, letters) + digits);
    }
  const short = words.join('.');
  return short.length <= most ? short :
    '…' + short.slice(short.length - most + 1);
}

function drawNode(parameters, api) {
  const number = api.value(2);
  const node = data.nodes[number];
  const color = api.visual('color');
  const [x, y] = api.coord([api.value(0), api.value(1)]);
  const [width, height] = api.size([0.88, 0.74]);
  const size = Math.max(7, Math.min(15, height * 0.6));
  const text = fitted(shortName(node), Math.max(3,
    Math.floor((width - 6) / (size * (node.is_layer ? 0.62 : 0.56)))));
  return {type: 'group', children: [
    {type: 'rect', shape: {x: x - width / 2, y: y - height / 2, width, height,
       r: 3}, style: {fill: node.is_layer ? color : theme.card,
       stroke: number === picked ? theme.text : color,
       lineWidth: number === picked ? 3 : 1.5}},
    {type: 'text', silent: true, style: {text, x, y, textAlign: 'center',
       textVerticalAlign: 'middle', fontSize: size,
       fontWeight: node.is_layer ? 'bold' : 'normal',
       fill: node.is_layer ? textOn(color) : theme.text}},
  ]};
}

const graphHeight = (layout) => Math.min(MOST_GRAPH_PIXELS,
  Math.ceil(layout.height * NODE_PIXELS) + 60);

const graphPlace = () => cards.find((card) => card.id === 'graph').place;
const currentLayout = () => graphLayout(Math.max(2,
  Math.floor((graphPlace().clientWidth - 40) / COLUMN_PIXELS)));

function nodeTip(number, device) {
  const node = data.nodes[number];
  return head(node.name) + `${encode(node.op)}, depth ${node.depth}` +
    `<div><b>${encode(node.precisions[device ?? 0] ?? '–')}</b>` +
    `${node.is_layer ? '' : ', from its inputs'}</div>`;
}

function graphOption({device}) {
  const layout = currentLayout();
  const ways = data.edges.map(([from, to]) =>
    edgeWay(layout.places[from], layout.places[to], layout.lines));
  const precisionOf = (node) => node.precisions[device ?? 0] ?? 'unknown';
  const precisions = precisionsIn(data.nodes.map(precisionOf));
  const shown = (graphHeight(layout) - 60) / NODE_PIXELS / layout.height;
  const inner = {type: 'inside', filterMode: 'none', zoomOnMouseWheel: 'ctrl',
                 moveOnMouseMove: true, moveOnMouseWheel: false, minSpan: 4};
  const hidden = {type: 'value', show: false};
  return {
    legend: {data: precisions},
    tooltip: {formatter: ({seriesName, value}) =>
      seriesName === 'edges' ? '' : nodeTip(value[2], device)},
    grid: {left: 6, right: shown < 1 ? 34 : 6, top: 40, bottom: 10},
    xAxis: {...hidden, min: -0.65, max: layout.width - 0.35},
    yAxis: {...hidden, inverse: true, min: -0.9, max: layout.height},
    dataZoom: keepZoom('graph', [{...inner, xAxisIndex: 0},
      {...inner, yAxisIndex: 0, start: 0, end: 100 * Math.min(1, shown)},
      ...(shown < 1 ? [{type: 'slider', yAxisIndex: 0, width: 16, right: 6,
        filterMode: 'none', ...zoomStyle()}] : [])]),
    series: [
      {name: 'edges', type: 'custom', silent: true, clip: true,
       renderItem: drawEdge(ways), itemStyle: {color: theme.faint},
       encode: {x: [0, 2], y: [1, 3]},
       data: data.edges.map(([from, to]) => [
         layout.places[from].x, layout.places[from].y,
         layout.places[to].x, layout.places[to].y])},
      ...precisions.map((precision) => ({
        name: precision, type: 'custom', clip: true, renderItem: drawNode,
        itemStyle: {color: precisionColor(precision)}, encode: {x: 0, y: 1},
        data: data.nodes.flatMap((node, i) => precisionOf(node) === precision ?
          [[layout.places[i].x, layout.places[i].y, i]] : [])})),
    ],
  };
}

// One line about the selected node.
function pickedText(device) {
  if (picked === null) return 'Click an operator to see its inputs and ' +
    'outputs.';
  const node = data.nodes[picked];
  const layer = layersOn(device).find((one) => one.name === node.name);
  const near = (list) => list.map((i) => shortName(data.nodes[i])).join(', ') ||
    'none';
  const takes = data.edges.filter((edge) => edge[1] === picked);
  const gives = data.edges.filter((edge) => edge[0] === picked);
  return `${node.name}: ${node.op}, ${node.precisions[device ?? 0] ?? '–'}` +
    (layer ? ` (${layer.reason}); ` + data.precisions.filter((one) =>
      layer.ms[one] !== undefined).map((one) =>
      `${one} ${numberText(layer.ms[one])} ms`).join(', ') : '') +
    `. Inputs from: ${near(takes.map((edge) => edge[0]))}; ` +
    `outputs to: ${near(gives.map((edge) => edge[1]))}.`;
}

function addGraph() {
  if (data.nodes.length === 0) return;
  const section = addCard({id: 'graph', title: 'Model graph', isWide: true,
    text: 'Layers are filled with the color of their precision; other ' +
      'operators follow their inputs. One column per depth; lines wrap. ' +
      'Zoom with Ctrl and the wheel, drag to move.',
    controls: deviceControl(),
    height: () => graphHeight(currentLayout()), option: graphOption});
  const {chart, draw} = cards.find((card) => card.id === 'graph');
  const text = make('p', {className: 'picked'});
  section.insertBefore(text, section.querySelector('.chart'));
  const say = () => {
    text.textContent = pickedText(section.querySelector('select')?.value);
  };
  say();
  section.querySelector('select')?.addEventListener('change', say);
  chart.on('click', ({seriesName, value}) => {
    if (seriesName === 'edges') return;
    picked = picked === value[2] ? null : value[2];
    say();
    draw();
  });
}
