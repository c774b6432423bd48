// The page in its order.

addSteps();
addTradeOff();
addLayers();
addPlanTimeline();
addPath();
addGraph();
showPage();
