// Adds the cards in the order of the page.

addSteps();
addTradeOff();
addLayers();
addPlanTimeline();
addPath();
addGraph();
showPage();
