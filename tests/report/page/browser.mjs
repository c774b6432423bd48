// The page of `sheaf report` in a real browser: charts and legends, in light
// and dark mode, in wide and narrow windows. Exits with 77 and a reason if the
// browser or its driver is missing.
//
// usage: node browser.mjs SHEAF FOLDER [SCREENSHOTS]
import {rmSync} from 'node:fs';

import {chartOf, check, expect, expectDrawn, expectEqual, folder, isNear, names,
        open, shoot, textOf, writePage} from './page_driver.mjs';
import {makeRuns} from './sample_runs.mjs';

const writeReport = (name, runs, ...more) =>
  writePage(name, (file) => ['report', ...runs, '-o', file, ...more]);

async function checkCharts(page) {
  const runs = ['DDP', 'DAD', 'RANK', 'PLAIN'];
  const wanted = {
    learning: runs, times: runs,
    split: ['data', 'forward', 'backward', 'exchange', 'gradient', 'optimizer',
            'other'],
    bytes: ['gradient', 'dad', 'rank-dad', 'not recorded'],
    ranks: ['fc1.weight', 'fc2.weight', 'fc3.weight', 'fc4.weight'],
    timeline: ['forward', 'backward', 'all_gather', 'optimizer'],
  };
  for (const [id, legend] of Object.entries(wanted)) {
    const chart = await chartOf(page, id);
    expectDrawn(chart, id);
    expectEqual([...chart.legend].sort(), [...legend].sort(), `${id}: legend`);
    expectEqual(names(chart).sort(), [...legend].sort(), `${id}: series`);
  }
  const learning = await chartOf(page, 'learning');
  expectEqual(learning.series.length, 12, 'a curve per run and kind');
  expectEqual(learning.series[0], ['DDP', 600], 'points of the first curve');
  expect(learning.axes.includes('step'), 'learning: the x axis says step');
}

// Compares the numbers on the page with those in the files.
async function checkNumbers(page) {
  const row = await page.$$eval('#runs tbody tr', (rows) => rows.map((row) =>
    [...row.children].map((cell) => cell.textContent)));
  expectEqual(row.map((cells) => cells[0]), ['DDP', 'DAD', 'RANK', 'PLAIN'],
              'runs');
  expectEqual(row[0][5], '1.00×', 'speed-up of the first run');
  expect(Number.parseFloat(row[1][5]) > 1.5, 'speed-up of DAD');
  expectEqual(row[0][6], '16.6 MiB', 'bytes of the gradients');
  const split = await chartOf(page, 'split');
  const other = split.data.at(-1)[0];
  expect(isNear(other, 0.1), `other: ${other} ms`);
  const sums = runsOf(split).map((parts) => parts.reduce((a, b) => a + b, 0));
  const means = await page.evaluate(() => data.runs.map((run) =>
    run.statistics.batch_duration.mean));
  expect(sums.every((sum, i) => isNear(sum, means[i])),
         `parts add up to ${sums}, the batches take ${means}`);
  const times = await chartOf(page, 'times');
  expectEqual(times.series[0][1], 595, 'the warm-up is left out');
}

// Grouped by run instead of by part.
const runsOf = (chart) => chart.data[0].map((value, i) =>
  chart.data.map((part) => part[i]));

async function checkControls(page) {
  await page.selectOption('#learning select[name=metric]', 'accuracy');
  await page.selectOption('#learning select[name=over]', 'seconds');
  const learning = await chartOf(page, 'learning');
  expectEqual(learning.axes, ['training time (s)', 'accuracy (share)'],
              'axes after a choice');
  await page.selectOption('#split select', {label: 'DAD'});
  const split = await chartOf(page, 'split');
  expectEqual(split.series[0], ['data', 595], 'the parts of one run');
  await page.selectOption('#bytes select', {label: 'RANK'});
  const bytes = await chartOf(page, 'bytes');
  expectEqual(bytes.legend, ['rank-dad', 'gradient'], 'routes of one run');
  expect(bytes.texts.includes('fc1.weight'), 'bytes: no name of a layer');
  await page.selectOption('#times select[name=key]', 'dad_backward_duration');
  await page.selectOption('#times select[name=as]', 'sum');
  const times = await chartOf(page, 'times');
  expectEqual(names(times), ['DAD', 'RANK'], 'runs with the key');
  expectEqual(times.axes, ['step', 's, cumulative'], 'axes of the sum');
  await page.click('#bytes summary');
  const reason = await textOf(page, '#bytes details[open]');
  expect(reason.includes('784 × 2048'), 'routes: shape');
}

async function checkTexts(page) {
  const rows = await page.$$eval('#config > .scroll tbody tr', (rows) =>
    rows.map((row) => [...row.children].map((cell) => cell.textContent)));
  expectEqual(rows, [['epochs', '4', '4', '3', '2'],
    ['parallel.strategy', 'data', 'dad', 'rank-dad', 'data']], 'settings');
  for (const [id, why] of [['timeline', 'PLAIN (no steps in trace.json)'],
                           ['ranks', 'DDP, DAD, PLAIN (no key "rank"'],
                           ['bytes', 'Layers not recorded: PLAIN']])
    expect((await textOf(page, `#${id} p`)).includes(why), `${id}: ${why}`);
}

const back = (page) => page.evaluate(() =>
  getComputedStyle(document.body).backgroundColor);

async function checkThemes(page) {
  const light = [await back(page), (await chartOf(page, 'times')).color];
  await page.emulateMedia({colorScheme: 'dark'});
  await page.waitForFunction(() =>
    document.documentElement.dataset.theme === 'dark');
  const dark = [await back(page), (await chartOf(page, 'times')).color];
  expect(light[0] !== dark[0] && light[1] !== dark[1],
         `dark looks like light: ${light} and ${dark}`);
  expectDrawn(await chartOf(page, 'learning'), 'learning in the dark');
  await shoot(page, 'dark.png');
  await page.click('#theme');
  expectEqual([await back(page), (await chartOf(page, 'times')).color], light,
              'the button brings the light back');
}

async function checkPhone(page) {
  await page.setViewportSize({width: 360, height: 740});
  await page.waitForFunction(() => {
    const place = document.querySelector('#learning .chart');
    return place.querySelector('svg').getBoundingClientRect().width < 360;
  });
  // Charts are resized shortly after the window.
  await page.waitForFunction(() =>
    document.documentElement.scrollWidth <= innerWidth,
    null, {timeout: 5000}).catch(() => {});
  const [whole, shown] = await page.evaluate(() =>
    [document.documentElement.scrollWidth, innerWidth]);
  expect(whole <= shown, `the page is ${whole} wide on a phone of ${shown}`);
  expectDrawn(await chartOf(page, 'times'), 'times on a phone');
  await shoot(page, 'phone.png');
}

async function checkPlainRun(browser, run) {
  const label = '</script><img src=x onerror=alert(1)>';
  const page = await open(browser,
    writeReport('plain.html', [run], '--label', label));
  expectEqual(await page.title(), label, 'title');
  expectEqual(await page.$$eval('img', (all) => all.length), 0, 'images');
  for (const [id, words] of [['ranks', 'rows of kind "layers"'],
                             ['timeline', 'trace.json'],
                             ['config', 'nothing to compare']])
    expect((await textOf(page, `#${id} p`)).includes(words), `${id}: ${words}`);
  for (const id of ['learning', 'times', 'split', 'bytes'])
    expectDrawn(await chartOf(page, id), `${id} of one run`);
  await page.hover('#times .chart', {position: {x: 300, y: 150}});
  expectEqual(await page.$$eval('img', (all) => all.length), 0,
              'images in the tooltip');
  await shoot(page, 'plain.png');
  await page.close();
}

await check(async (browser) => {
  rmSync(folder, {recursive: true, force: true});
  const runs = makeRuns(folder);
  const page = await open(browser, writeReport('report.html', runs));
  await shoot(page, 'light.png');
  await checkCharts(page);
  await checkNumbers(page);
  await checkControls(page);
  await checkTexts(page);
  await checkThemes(page);
  await checkPhone(page);
  await checkPlainRun(browser, runs[3]);
});
