/** P8: duration of importing the package. test/slow/packed/library.slow.test.ts counts the packages. */
import { execFileSync } from 'node:child_process'
import { computeMedian, printFigure } from './harness.js'

const MEASURE = `const { performance: p } = require('node:perf_hooks'); const startedAt = p.now()
import('express-did-auth').then(() => console.log(p.now() - startedAt))`
const importOnce = (): number => Number(execFileSync(process.execPath, ['-e', MEASURE], { encoding: 'utf8' }))
const milliseconds = computeMedian(Array.from({ length: 9 }, importOnce))
printFigure(`P8 import of the package, median of 9: ${milliseconds.toFixed(0)} ms (goal <= 150 ms)`)
