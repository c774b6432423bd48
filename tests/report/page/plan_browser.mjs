// The page of `sheaf plan --report` in a real browser, for models as large as
// ResNet-50 and BERT-base.
//
// usage: PLAN_TRACES=PROGRAM node plan_browser.mjs SHEAF FOLDER [SCREENSHOTS]
import {execFileSync} from 'node:child_process';
import {mkdirSync, rmSync} from 'node:fs';
import {join} from 'node:path';

import {chartOf, check, expect, expectDrawn, expectEqual, faults, folder,
        names, open, shoot, textOf, writePage} from './page_driver.mjs';

function writeTrace(model, plan, name = plan) {
  const file = join(folder, `${model}.${name}.json`);
  execFileSync(process.env.PLAN_TRACES, [model, plan, file]);
  return file;
}

// With a measured run of the plan, if requested.
function writePlan(model, {isMeasured, slack = '4'} = {}) {
  const traces = ['f32', 'bf16'].map((one) => writeTrace(model, one));
  const plan = join(folder, `${model}.chosen.json`);
  const words = (file, ...more) => ['plan', ...traces, '--slack', slack, '-o',
                                    plan, '--report', file, ...more];
  const name = `${model}${isMeasured ? '.measured' : ''}.html`;
  const address = writePage(name, words);
  if (!isMeasured) return address;
  const run = writeTrace(model, plan, 'run');
  return writePage(name, (file) => words(file, '--measured', run));
}

const rowsOf = (page, selector) => page.$$eval(`${selector} tbody tr`,
  (rows) => rows.map((row) => [...row.children].map((one) =>
    one.textContent)));

async function checkSteps(page) {
  const rows = await rowsOf(page, '#steps');
  expectEqual(rows.map((row) => row[0]), ['all f32', 'all bf16', 'fastest',
    'chosen', 'chosen, measured'], 'plans');
  expectEqual(rows[0][2], '1.00×', 'speed-up of the first');
  const [chosen, measured] = rows.slice(3).map((row) => Number(row[1]));
  expect(Math.abs(chosen / measured - 1) < 0.03,
         `predicted ${chosen} ms, measured ${measured} ms`);
  expectEqual(await page.$$eval('tr.chosen', (all) => all.length), 1,
              'rows that are marked');
  const section = await textOf(page, '#steps');
  expect(!section.includes('Exchange'), 'one rank exchanges nothing');
}

async function checkCharts(page) {
  const trade = await chartOf(page, 'tradeoff');
  expect(names(trade).includes('kept') && names(trade).includes('chosen'),
         `trade-off: ${names(trade)}`);
  expectEqual(trade.axes, ['step (ms)', 'indicator'], 'axes of the trade-off');
  const layers = await chartOf(page, 'layers');
  expectDrawn(layers, 'layers');
  expectEqual(layers.series[0][1], 54, 'layers');
  await page.selectOption('#layers select[name=show]', 'ms');
  const both = await chartOf(page, 'layers');
  expectEqual(names(both), ['f32', 'bf16'], 'precisions');
  expect(both.data[0][3] > both.data[1][3], 'f32 takes longer than bf16');
  const path = await chartOf(page, 'path');
  expectDrawn(path, 'path');
  const sum = path.data.flat().reduce((a, b) => a + b, 0);
  const step = await page.evaluate(() => data.timelines[0].step_ms);
  expect(Math.abs(sum / step - 1) < 1e-3, `path ${sum} ms, step ${step} ms`);
}

// The elements of a color in a card that are larger than a legend symbol.
const shapes = (page, id, color) => page.evaluate(([id, color]) =>
  [...document.querySelectorAll(`#${id} .chart svg path`)].filter((path) => {
    const {width, height} = path.getBBox();
    return height > 12 && path.getAttribute('fill') === color && width > 0;
  }).length, [id, color]);

async function checkTimeline(page) {
  const chart = await chartOf(page, 'timeline');
  for (const name of ['forward', 'backward', 'cast'])
    expect(chart.legend.includes(name), `timeline: no ${name}`);
  const lanes = chart.axes[1].split(',');
  expect(chart.axes[1].includes('thread, predicted,thread, measured'),
         `lanes: ${lanes}`);
  const color = await page.evaluate(() => workColor(0));
  expect(await shapes(page, 'timeline', color) > 50, 'forward is drawn');
  expect(chart.texts.some((text) => text.startsWith('measured ')),
         'the end of the measured step');
  // Zooms in with the mouse wheel.
  const range = () => page.evaluate(() => {
    const place = document.querySelector('#timeline .chart');
    const {start, end} = echarts.getInstanceByDom(place).getOption()
      .dataZoom[0];
    return [start, end];
  });
  expectEqual(await range(), [0, 100], 'all is shown at first');
  await page.locator('#timeline .chart').scrollIntoViewIfNeeded();
  await page.hover('#timeline .chart', {position: {x: 700, y: 120}});
  await page.keyboard.down('Control');
  for (let i = 0; i < 3; ++i) await page.mouse.wheel(0, -300);
  await page.keyboard.up('Control');
  await page.waitForFunction(() => {
    const place = document.querySelector('#timeline .chart');
    return echarts.getInstanceByDom(place).getOption().dataZoom[0].end < 99;
  });
  const [start, end] = await range();
  expect(start > 0 && end - start < 90, `enlarged: ${start} to ${end}`);
  await page.selectOption('#timeline select[name=show]', 'path');
  const path = await chartOf(page, 'timeline');
  const faint = path.data.flat().filter((bar) => bar.value[4] < 1);
  expect(faint.length > 0 && faint.every((bar) => !bar.value[3]),
         'what is not on the path is faint');
  expectEqual(await range(), [start, end], 'it stays enlarged');
}

async function checkGraph(page, nodes) {
  const found = await page.evaluate(() => {
    const place = document.querySelector('#graph .chart');
    const texts = [...place.querySelectorAll('svg text')];
    return {nodes: data.nodes.length, edges: data.edges.length,
      bold: texts.filter((one) => /bold/.test(one.getAttribute('style')) ||
        one.getAttribute('font-weight') === 'bold').length,
      smallest: Math.min(...texts.map((one) => parseFloat(
        getComputedStyle(one).fontSize)))};
  });
  expectEqual(found.nodes, nodes, 'operators');
  expect(found.edges >= nodes - 3, `edges: ${found.edges}`);
  expect(found.bold > 40, `layers in bold: ${found.bold}`);
  expect(found.smallest >= 10, `letters of ${found.smallest} px`);
  for (const precision of ['bf16'])
    expect(await shapes(page, 'graph', await page.evaluate((one) =>
      precisionColor(one), precision)) > 20, `graph: ${precision} is drawn`);
}

// Clicks left of a point of the graph until the text starts as expected:
// ECharts loses a click while the chart is redrawn, for example after the
// window was resized for a screenshot.
async function clickUntil(page, [x, y], start) {
  for (let i = 0; i < 3; ++i) {
    await page.click('#graph .chart', {position: {x: x - 40, y}});
    const isSaid = await page.waitForFunction((start) =>
      document.querySelector('#graph .picked').textContent.startsWith(start),
      start, {timeout: 3000}).then(() => true, () => false);
    if (isSaid) return;
  }
  faults.push(`three clicks: ${await textOf(page, '#graph .picked')} instead ` +
              `of ${start}`);
}

// A click shows a layer and highlights its edges; a second click undoes it.
async function checkClick(page) {
  const at = await page.evaluate(() => {
    const place = document.querySelector('#graph .chart');
    const chart = echarts.getInstanceByDom(place);
    const layout = currentLayout();
    const node = data.nodes.findIndex((one) => one.name === 'layer1.0.conv2');
    const {x, y} = layout.places[node];
    return chart.convertToPixel({xAxisIndex: 0, yAxisIndex: 0}, [x, y]);
  });
  await page.locator('#graph .chart').scrollIntoViewIfNeeded();
  await clickUntil(page, at, 'layer1.0.conv2: aten::conv2d');
  const text = await textOf(page, '#graph .picked');
  expect(text.includes('outputs to: batch_norm'), `picked: ${text}`);
  await shoot(page, 'plan_picked.png');
  await clickUntil(page, at, 'Click');
}

async function checkLooks(page) {
  const colors = () => page.evaluate(() => [
    getComputedStyle(document.body).backgroundColor, precisionColor('bf16')]);
  const light = await colors();
  await page.emulateMedia({colorScheme: 'dark'});
  await page.waitForFunction(() =>
    document.documentElement.dataset.theme === 'dark');
  const dark = await colors();
  expect(light[0] !== dark[0] && light[1] !== dark[1], 'dark looks like light');
  expect(await shapes(page, 'graph', dark[1]) > 20, 'the graph in the dark');
  await shoot(page, 'plan_dark.png');
  await page.setViewportSize({width: 360, height: 740});
  // Charts are resized shortly after the window.
  await page.waitForFunction(() =>
    document.documentElement.scrollWidth <= innerWidth,
    null, {timeout: 5000}).catch(() => {});
  const [whole, shown] = await page.evaluate(() =>
    [document.documentElement.scrollWidth, innerWidth]);
  expect(whole <= shown, `the page is ${whole} wide on a phone of ${shown}`);
}

await check(async (browser) => {
  rmSync(folder, {recursive: true, force: true});
  mkdirSync(folder, {recursive: true});
  const page = await open(browser, writePlan('resnet50', {isMeasured: true}));
  await shoot(page, 'plan_light.png');
  await checkSteps(page);
  await checkCharts(page);
  await checkTimeline(page);
  await checkGraph(page, 176);
  await checkClick(page);
  await checkLooks(page);
  await page.close();
  const large = await open(browser, writePlan('bert'));
  await checkGraph(large, 304);
  expectEqual(await large.$$eval('#timeline', (all) => all.length), 1,
              'the predicted timeline alone');
  expect(!(await textOf(large, '#page')).includes('measured'),
         'nothing was measured');
  await shoot(large, 'plan_bert.png');
});
