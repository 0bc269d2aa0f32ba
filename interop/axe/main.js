// Writes the source of axe, which finds what a screen reader or a keyboard cannot use on a page.
"use strict";
process.stdout.write(require("fs").readFileSync(require.resolve("axe-core/axe.min.js")));
