// Options that all charts share.

function axisStyle() {
  return {
    axisLine: {lineStyle: {color: theme.edge}},
    axisTick: {lineStyle: {color: theme.edge}},
    axisLabel: {color: theme.faint, hideOverlap: true},
    splitLine: {lineStyle: {color: theme.grid}},
    nameTextStyle: {color: theme.faint},
  };
}

function withDefaults(option) {
  const styled = (axis) => axis && {...axisStyle(), ...axis};
  return {
    animation: false,
    color: theme.series,
    textStyle: {color: theme.text, fontFamily: 'inherit'},
    grid: {left: 12, right: 22, top: 56, bottom: 34, containLabel: true},
    ...option,
    legend: option.legend && {
      type: 'scroll', top: 0, left: 0, icon: 'roundRect', itemWidth: 14,
      itemHeight: 10, textStyle: {color: theme.text},
      inactiveColor: theme.faint, pageIconColor: theme.text,
      pageIconInactiveColor: theme.edge, pageTextStyle: {color: theme.faint},
      ...option.legend,
    },
    tooltip: {
      confine: true, backgroundColor: theme.card, borderColor: theme.edge,
      textStyle: {color: theme.text, fontSize: 13}, ...option.tooltip,
    },
    xAxis: styled(option.xAxis),
    yAxis: styled(option.yAxis),
  };
}

const xAxisOf = (name, more = {}) => ({
  type: 'value', name, nameLocation: 'middle', nameGap: 28, min: 'dataMin',
  max: 'dataMax', splitLine: {show: false}, ...more,
  axisLabel: {color: theme.faint, hideOverlap: true, showMinLabel: false,
              showMaxLabel: false, ...more.axisLabel},
});

const yAxisOf = (name, unit, more = {}) => ({
  type: 'value', name, nameLocation: 'end', nameGap: 14,
  nameTextStyle: {color: theme.faint, align: 'left'},
  axisLabel: {color: theme.faint,
              formatter: unit === 'bytes' ? bytesText : undefined},
  ...more,
});

const head = (text) =>
  `<div style="color:${theme.faint}">${encode(text)}</div>`;
const entry = (item, text) => `<div>${item.marker}${text}</div>`;

function lineSeries(name, i, points, more = {}) {
  return {
    name, type: 'line', data: points, showSymbol: points.length === 1,
    symbolSize: 5, itemStyle: {color: colorAt(i)},
    lineStyle: {width: 2, color: colorAt(i), ...more.lineStyle},
    emphasis: {disabled: true},
    ...Object.fromEntries(Object.entries(more)
        .filter(([key]) => key !== 'lineStyle')),
  };
}

const pairs = (xs, ys) => xs.map((x, i) => [x, ys[i]]);
