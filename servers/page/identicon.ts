import { keccak_256 } from '@noble/hashes/sha3'
import { utf8ToBytes } from '@noble/hashes/utils'

/**
 * Draws a small picture, so that users recognize their DID: 5 by 5 squares, whose right half mirrors the left half. A
 * DID and its address have the same picture.
 *
 * @returns the URL of an SVG, which the Content-Security-Policy allows for images
 */
export function drawIdenticon(did: string): string {
  // Wallets and services may spell the same address in different cases.
  const [color = 0, ...bytes] = keccak_256(utf8ToBytes(did.slice(-42).toLowerCase()))
  const hue = Math.round((color / 256) * 360)
  const squares = bytes.slice(0, 15).map((byte, index) => {
    const [x, y] = [index % 3, Math.floor(index / 3)]
    return byte % 2 === 0 ? '' : `M${x} ${y}h1v1h-1zM${4 - x} ${y}h1v1h-1z`
  })
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1.5 -1.5 8 8">
    <rect x="-1.5" y="-1.5" width="8" height="8" fill="hsl(${hue} 50% 90%)"/>
    <path d="${squares.join('')}" fill="hsl(${hue} 60% 38%)"/></svg>`
  return `data:image/svg+xml,${encodeURIComponent(svg)}`
}
