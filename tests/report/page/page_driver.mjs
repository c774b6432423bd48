// Shared code of the page tests: the browser, the list of failures, and access
// to the drawn charts. Exits with 77 and a reason if the browser or its driver
// is missing, or with 1 if SHEAF_CI is set.
import {execFileSync} from 'node:child_process';
import {accessSync, constants, mkdirSync} from 'node:fs';
import {createRequire} from 'node:module';
import {delimiter, join} from 'node:path';
import {pathToFileURL} from 'node:url';

export const [sheaf, folder, screenshots] = process.argv.slice(2);
export const faults = [];

export function expect(isTrue, text) {
  if (!isTrue) faults.push(text);
}

export function expectEqual(found, wanted, text) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  expect(a === b, `${text}: ${a} instead of ${b}`);
}

function skip(reason) {
  console.log(`skipped: ${reason}`);
  process.exit(process.env.SHEAF_CI ? 1 : 77);
}

function findProgram(...names) {
  for (const name of names)
    for (const place of (process.env.PATH ?? '').split(delimiter)) {
      try {
        accessSync(join(place, name), constants.X_OK);
        return join(place, name);
      } catch { /* looked for in the next place */ }
    }
  return null;
}

async function startBrowser() {
  let driver;
  try {
    driver = createRequire(import.meta.url)('playwright-core').chromium;
  } catch {
    skip('playwright-core is missing; scripts/install-deps fetches it');
  }
  const program = findProgram('chromium', 'chromium-browser', 'google-chrome');
  if (!program) skip('chromium is missing; install the package chromium');
  try {
    // The sandbox is not available to root or in containers, and the page is
    // trusted.
    return await driver.launch({executablePath: program, timeout: 60000,
                                args: ['--no-sandbox', '--disable-gpu']});
  } catch (error) {
    return skip(`${program} does not start: ${error.message.split('\n')[0]}`);
  }
}

// The page that `sheaf` with these arguments writes to the file `name`.
export function writePage(name, words) {
  const file = join(folder, name);
  try {
    execFileSync(sheaf, words(file), {stdio: ['ignore', 'ignore', 'pipe']});
  } catch (error) {
    const text = String(error.stderr);
    if (text.includes('without ECharts')) skip(text.trim());
    throw error;
  }
  return pathToFileURL(file).href;
}

// A page that records its errors and its network requests.
export async function open(browser, address, options = {}) {
  const page = await browser.newPage(
    {viewport: {width: 1280, height: 900}, ...options});
  const name = address.split('/').pop();
  page.on('console', (message) => expect(
    !['error', 'warning'].includes(message.type()),
    `${name}: console: ${message.text()}`));
  page.on('pageerror', (error) => faults.push(`${name}: ${error.message}`));
  page.on('request', (request) => expect(
    request.url() === address || request.url().startsWith('data:'),
    `${name}: asks for ${request.url()}`));
  await page.goto(address);
  return page;
}

export async function shoot(page, name) {
  if (!screenshots) return;
  mkdirSync(screenshots, {recursive: true});
  await page.screenshot({path: join(screenshots, name), fullPage: true});
}

// The data of the chart in a card, and the elements that ECharts has drawn.
export const chartOf = (page, id) => page.evaluate((id) => {
  const place = document.querySelector(`#${id} .chart`);
  const chart = echarts.getInstanceByDom(place);
  const option = chart.getOption();
  const axes = [...option.xAxis, ...option.yAxis];
  return {
    series: option.series.map((one) => [one.name, one.data.length]),
    legend: option.legend[0].data,
    axes: axes.map((axis) => axis.name || axis.data?.join(',')),
    widths: [place.clientWidth, chart.getWidth(),
             place.querySelector('svg').getBoundingClientRect().width],
    color: option.series[0].itemStyle.color,
    // Series with a drawn element that is larger than a legend symbol.
    drawn: option.series.filter((one) =>
      [...place.querySelectorAll('svg path')].some((path) => {
        const {width, height} = path.getBBox();
        return (width > 20 || height > 20) && [path.getAttribute('stroke'),
          path.getAttribute('fill')].includes(one.itemStyle.color);
      })).length,
    texts: [...place.querySelectorAll('svg text')].map((t) => t.textContent),
    data: option.series.map((one) => one.data),
  };
}, id);

export const textOf = (page, selector) => page.textContent(selector);
export const names = (chart) => [...new Set(chart.series.map(([name]) => name))];
export const isNear = (a, b) => Math.abs(a - b) <= 1e-4 * Math.abs(b);

export function expectDrawn(chart, id) {
  expectEqual(chart.drawn, chart.series.length, `${id}: series drawn`);
  expect(chart.widths[0] > 200 && new Set(chart.widths).size === 1,
         `${id}: widths of place, chart and drawing: ${chart.widths}`);
  for (const name of chart.legend.slice(0, 3))
    expect(chart.texts.includes(name), `${id}: no legend for ${name}`);
  for (const axis of chart.axes)
    expect(axis, `${id}: an axis without a name`);
}

// Runs the checks, prints all failures and exits.
export async function check(checks) {
  const browser = await startBrowser();
  try {
    await checks(browser);
  } finally {
    await browser.close();
  }
  for (const fault of faults) console.log(fault);
  if (faults.length === 0) console.log('the page is as it should be');
  process.exit(faults.length === 0 ? 0 : 1);
}
