import { describe, expect, it } from '@jest/globals'
import { drawIdenticon } from '../../../servers/page/identicon.js'

const ADDRESS = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'

/** Returns the x and y of the squares of a picture. */
const listSquares = (picture: string): string[] =>
  [...decodeURIComponent(picture).matchAll(/M(\d \d)h1v1h-1z/g)].map(([, square]) => square!)

describe('the picture of a DID', () => {
  it('is an image, the same for a DID and its address in any case, and another one for another DID', () => {
    const picture = drawIdenticon(ADDRESS)
    expect(picture).toMatch(/^data:image\/svg\+xml,%3Csvg/)
    expect(drawIdenticon(`did:ethr:rsk:${ADDRESS.toLowerCase()}`)).toBe(picture)
    expect(drawIdenticon(ADDRESS.replace('d', 'e'))).not.toBe(picture)
  })

  it('is symmetric', () => {
    const squares = listSquares(drawIdenticon(ADDRESS))
    expect(squares.length).toBeGreaterThan(0)
    expect(squares.filter((square) => !squares.includes(`${4 - Number(square[0])}${square.slice(1)}`))).toEqual([])
  })
})
