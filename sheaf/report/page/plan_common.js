// Code that the cards of a plan share.

// By PlanWork: name, and index of the series color.
const WORKS = [['forward', 0], ['backward', 2], ['cast', 4], ['exchange', 1],
               ['optimizer', 3], ['other', 7]];
const workColor = (work) => colorAt(WORKS[work][1]);

// The colors of precisions are in plan.css.
const KNOWN = ['f32', 'tf32', 'bf16', 'f16', 'int8'];
const precisionColor = (precision) =>
  getComputedStyle(document.documentElement).getPropertyValue(
    KNOWN.includes(precision) ? `--${precision}` : '--else').trim();

// Black or white, whichever is readable on a color.
function textOn(color) {
  const [red, green, blue] = [1, 3, 5].map((at) =>
    (parseInt(color.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.21 ? '#000000' :
                                                               '#ffffff';
}

const precisionName = (precision) => make('span', {},
  make('span', {className: `swatch ${precision}`}), precision);

// A control only if there are several devices.
const deviceControl = () => data.devices.length > 1 ?
  [['device', data.devices.map((name, i) => [i, name])]] : [];

const layersOn = (device) =>
  data.layers.filter((layer) => layer.device === Number(device ?? 0));

// In the order of the page's precisions.
const precisionsIn = (used) =>
  [...data.precisions, ...used.filter((one) => !data.precisions.includes(one))]
    .filter((one, i, all) => used.includes(one) && all.indexOf(one) === i);

const zoomStyle = () => ({borderColor: theme.edge, textStyle: {
  color: theme.faint}, dataBackground: {lineStyle: {opacity: 0},
  areaStyle: {opacity: 0}}, fillerColor: theme.edge + '66',
  brushSelect: false, showDetail: false});

// Keeps the zoom of a chart when it is redrawn.
function keepZoom(id, zooms) {
  const now = cards.find((card) => card.id === id)?.chart.getOption()?.dataZoom;
  return zooms.map((one, i) => now?.[i] ?
    {...one, start: now[i].start, end: now[i].end} : one);
}
