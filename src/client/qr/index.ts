/** QR codes of relay links or any other text. They need the optional package `uqr`: `npm install uqr`. */
import { encode, renderUnicodeCompact } from 'uqr'

/** Options for drawing a code. */
export interface QrOptions {
  /** Part of the code that may be unreadable: L 7 %, M 15 %, Q 25 %, H 30 %. Default M. */
  readonly correction?: 'L' | 'M' | 'Q' | 'H'
  /** White modules around the code. Default 4, which the standard requires. */
  readonly border?: number
}

/**
 * Returns a QR code with its border as rows of modules, true for dark.
 *
 * @throws RangeError for a text of more than about 2,300 bytes
 * @see ISO/IEC 18004
 */
export function qrMatrix(text: string, { correction = 'M', border = 4 }: QrOptions = {}): boolean[][] {
  return encode(text, { ecc: correction, border }).data
}

/**
 * Draws a QR code as an SVG, black on white, without a fixed size. The SVG does not contain the text, so a page can
 * insert it as HTML.
 *
 * @throws RangeError as {@link qrMatrix}
 * @example element.innerHTML = qrSvg(relay.link(uri, 'https://app.example.com/open'))
 */
export function qrSvg(text: string, options?: QrOptions): string {
  const rows = qrMatrix(text, options)
  const path = rows.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : []))).join('')
  const attributes = `xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${rows.length} ${rows.length}"`
  const open = `<svg ${attributes} shape-rendering="crispEdges" role="img" aria-label="QR code">`
  return `${open}<path fill="#fff" d="M0 0h${rows.length}v${rows.length}H0z"/><path d="${path}"/></svg>`
}

/** Draws a QR code for a dark terminal: two modules per character. @throws RangeError as {@link qrMatrix} */
export function qrText(text: string, { correction = 'M', border = 2 }: QrOptions = {}): string {
  return renderUnicodeCompact(text, { ecc: correction, border })
}
