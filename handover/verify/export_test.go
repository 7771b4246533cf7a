package verify

// Render is for the fuzz test.
var Render = renderPostgreSQL
