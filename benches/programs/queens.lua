-- N queens by recursion over tables and closures, and string building.
local function queens(n)
  local solutions = 0
  local columns, up, down = {}, {}, {}
  local function place(row)
    if row > n then solutions = solutions + 1 return end
    for c = 1, n do
      if not (columns[c] or up[row + c] or down[row - c + n]) then
        columns[c], up[row + c], down[row - c + n] = true, true, true
        place(row + 1)
        columns[c], up[row + c], down[row - c + n] = nil, nil, nil
      end
    end
  end
  place(1)
  return solutions
end
local parts = {}
for i = 1, 400000 do parts[#parts + 1] = string.format("%d:%x", i, i * 31 % 65536) end
table.sort(parts)
print(queens(10), #table.concat(parts, ","), parts[1000])
