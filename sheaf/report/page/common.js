'use strict';
// Draws the data of the page. The .js files of this folder are joined into one
// script. A card is a section with a heading, controls and a chart; its
// `option` function builds the ECharts options from the values of the controls
// and the colors of the theme. All texts from files are passed through
// textContent, ECharts labels or encodeHTML.

const data = JSON.parse(document.getElementById('data').textContent);
const runs = data.runs;
const page = document.getElementById('page');
const cards = [];

const THEMES = {
  light: {
    text: '#1f2328', faint: '#59636e', edge: '#d1d9e0', grid: '#e4e8ec',
    card: '#ffffff',
    series: ['#0a62c9', '#c2410c', '#0f766e', '#a21caf', '#a16207', '#4d7c0f',
             '#be123c', '#475569'],
  },
  dark: {
    text: '#e6edf3', faint: '#9198a1', edge: '#30363d', grid: '#262c34',
    card: '#151b23',
    series: ['#58a6ff', '#fb923c', '#2dd4bf', '#e879f9', '#facc15', '#a3e635',
             '#fb7185', '#94a3b8'],
  },
};
// The index of the series color of each part and route, the same in every
// chart.
const PARTS = [['data_duration', 'data', 4], ['forward_duration', 'forward', 0],
               ['backward_duration', 'backward', 2],
               ['exchange_duration', 'exchange', 1],
               ['gradient_duration', 'gradient', 5],
               ['optimizer_duration', 'optimizer', 3], [null, 'other', 7]];
const ROUTES = {gradient: 7, dad: 0, edad: 2, 'rank-dad': 1, 'not recorded': 4};

let theme = THEMES.light;
const colorAt = (i) => theme.series[i % theme.series.length];

const encode = (text) => echarts.format.encodeHTML(String(text));

function numberText(value, digits = 4) {
  if (value === null || value === undefined) return '–';
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  return String(Number(value.toPrecision(digits)));
}

function bytesText(value) {
  if (value === null || value === undefined) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; value >= 1024 && i + 1 < units.length; ++i) value /= 1024;
  return `${numberText(value, 3)} ${units[i]}`;
}

const percentText = (value) => value === undefined || value === null ? '–' :
  (100 * value).toFixed(2) + ' %';

// The distance of about four ticks that are round numbers of KiB, MiB, ...
function bytesStep(largest) {
  if (!(largest > 0)) return undefined;
  const unit = 1024 ** Math.floor(Math.log(largest / 4) / Math.log(1024));
  const power = 10 ** Math.floor(Math.log10(largest / 4 / unit));
  const digit = [1, 2, 5, 10].find((one) => one * power * unit >= largest / 4);
  return Math.max(1, digit * power * unit);
}

function unitOf(key) {
  if (/(_duration|_busy|_ms)$/.test(key)) return 'ms';
  return key.startsWith('bytes') ? 'bytes' : '';
}

const valueText = (value, unit) => unit === 'bytes' ? bytesText(value) :
  numberText(value) + (unit && value !== null ? ' ' + unit : '');
