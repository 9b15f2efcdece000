import { describe, expect, it } from '@jest/globals'
import { qrMatrix, qrSvg, qrText } from 'express-did-auth-client/qr'

const LINK = `https://app.example.com/open#r=bafkrei${'a'.repeat(52)}.${'A'.repeat(43)}`

/** Finder pattern of the standard: 7 by 7 modules with a dark frame, a light ring and a dark center. */
const FINDER = ['#######', '#.....#', '#.###.#', '#.###.#', '#.###.#', '#.....#', '#######']

const toRows = (matrix: boolean[][]): string[] =>
  matrix.map((row) => row.map((isDark) => (isDark ? '#' : '.')).join(''))

describe('qrMatrix', () => {
  it('returns a square of 17 + 4n modules with finder patterns in three corners', () => {
    const rows = toRows(qrMatrix(LINK, { border: 0 }))
    const size = rows.length
    expect(rows.every((row) => row.length === size)).toBe(true)
    expect((size - 17) % 4).toBe(0)
    expect(rows.slice(0, 7).map((row) => row.slice(0, 7))).toEqual(FINDER)
    expect(rows.slice(0, 7).map((row) => row.slice(-7))).toEqual(FINDER)
    expect(rows.slice(-7).map((row) => row.slice(0, 7))).toEqual(FINDER)
  })

  it('adds a border of 4 light modules, and more modules for more correction', () => {
    const rows = toRows(qrMatrix(LINK))
    expect(rows.slice(0, 4).join('')).not.toContain('#')
    expect(rows.every((row) => row.startsWith('....') && row.endsWith('....'))).toBe(true)
    expect(qrMatrix(LINK, { correction: 'H' }).length).toBeGreaterThan(qrMatrix(LINK, { correction: 'L' }).length)
  })

  it('refuses a text that fits into no code', () => expect(() => qrMatrix('a'.repeat(3_000))).toThrow())
})

describe('qrSvg', () =>
  it('draws the dark modules, and contains no part of the text', () => {
    const matrix = qrMatrix('<script>', { border: 1 })
    const svg = qrSvg('<script>', { border: 1 })
    expect(svg).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" viewBox="0 0 (\d+) \1"/)
    expect(svg).not.toContain('script')
    const drawn = [...svg.matchAll(/M(\d+) (\d+)h1v1h-1z/g)].map(([, x, y]) => `${x} ${y}`)
    const dark = matrix.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`${x} ${y}`] : [])))
    expect(drawn).toEqual(dark)
  }))

describe('qrText', () =>
  it('prints two modules per character', () => {
    const lines = qrText(LINK, { border: 2 }).split('\n')
    const { length } = qrMatrix(LINK, { border: 2 })
    expect(lines).toHaveLength(Math.ceil(length / 2))
    expect(new Set(lines.map((line) => line.length))).toEqual(new Set([length]))
    expect(lines.join('')).toMatch(/^[ ▀▄█]+$/)
  }))
