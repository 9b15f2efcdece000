import { expect, jest } from '@jest/globals'
import { isFullSize, scaled } from './time-factor.js'

// Jest loads this before each file of tests, so that no test needs a limit of its own.
const isSlow = expect.getState().testPath?.endsWith('.slow.test.ts') === true
jest.setTimeout(isFullSize ? 2 ** 31 - 1 : scaled(isSlow ? 300_000 : 120_000))
