import { describe, expect, it } from '@jest/globals'
import { listCookieValues, listStalePaths } from '../../src/protocol/token-cookies.js'

describe('listStalePaths', () => {
  it.each([
    ['/', ['/']],
    ['/?a=/b', ['/']],
    ['/a', ['/', '/a', '/a/']],
    ['/a/b/?c/d#e', ['/', '/a', '/a/', '/a/b', '/a/b/']],
    ['/a//b', ['/', '/a', '/a/', '/a//', '/a//b', '/a//b/']],
    ['/a;x/b', ['/']],
    ['/a/b;x=1/c', ['/', '/a', '/a/']],
    ['/a/ä', ['/', '/a', '/a/']],
    ['/a/\u007f', ['/', '/a', '/a/']],
    ['/a/%C3%A4', ['/', '/a', '/a/', '/a/%C3%A4', '/a/%C3%A4/']],
    ['*', ['/']]
  ])('lists the levels of %j', (originalUrl, paths) => expect(listStalePaths(originalUrl, undefined)).toEqual(paths))

  it('lists at most 8 levels, and no path that browsers ignore', () => {
    const paths = listStalePaths(`/${Array.from({ length: 100 }, (_, index) => index).join('/')}`, 'same-origin')
    expect([paths.length, paths.at(-1)]).toEqual([17, '/0/1/2/3/4/5/6/7/'])
    expect(listStalePaths(`/a/${'b'.repeat(1_020)}/c`, 'none')).toEqual(['/', '/a', '/a/', `/a/${'b'.repeat(1_020)}`])
  })

  it('lists paths of at most 1,536 characters together, because proxies limit the headers of an answer', () => {
    const paths = listStalePaths(`/${'a'.repeat(400)}/${'b'.repeat(400)}`, 'none')
    expect(paths.map((path) => path.length)).toEqual([1, 401, 402])
  })

  it.each(['cross-site', 'same-site'])('lists none for Sec-Fetch-Site: %s', (site) => {
    expect(listStalePaths('/a', site)).toEqual([])
  })
})

describe('listCookieValues', () => {
  it.each([
    [undefined, []],
    ['a=1', []],
    ['b=1; a=2;b=3 ;b; b=; xb=4; c=b=5', ['1', '3', '']]
  ])('lists the values of b in %j', (header, values) => expect(listCookieValues(header, 'b')).toEqual(values))
})
